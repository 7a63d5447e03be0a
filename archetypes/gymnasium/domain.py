"""{{ gymnasium_id }} of Gymnasium as one class: an object plays one episode."""

from env_runtime.gymnasium import Action, GymnasiumEpisode


class DomainClass(GymnasiumEpisode):
    """One episode. Its task may have a `seed`, and `options` for gymnasium.make()."""

    id = "{{ gymnasium_id }}"
    tool = "step"  # the method that takes an action
    render_mode = "ansi"
    max_steps = {{ [max_turns * 5 // 6, 1] | max }}  # the episode is truncated after this many actions
    reward_range = (0.0, 1.0)  # {{ "unfinished: env_runtime.gymnasium writes it" if parts.variant else "for a whole episode" }}

    def step(self, action: Action) -> str:
        """Take one action, and see what follows.

        Args:
            action: The action.
        """
        reward = self.take(action)
        end = " The episode is over." if self.done else ""
        return f"{self.observation()}\nReward: {reward:g}.{end}"
