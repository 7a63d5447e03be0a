"""OpenEnv's page to play by hand, with a choice of the row that Reset plays."""

from typing import Any


def build_page(
    manager: Any, fields: Any, metadata: Any, is_chat: bool, title: str, start: str
) -> Any:
    """The page at /web, for create_app's `gradio_builder`."""
    # This import takes seconds, and only a server with the page has use for it.
    import gradio
    from openenv.core.env_server.gradio_ui import build_gradio_app

    environment = manager.env
    # OpenEnv has read neither the description nor the version of the environment.
    manager.metadata = environment.get_metadata()
    reset = manager.reset_environment
    row: dict[str, Any] = {"split": "test", "index": 0}

    async def reset_row(options: dict[str, Any] | None = None) -> dict[str, Any]:
        return await reset(options or row)

    def choose(split: str, index: int | None) -> None:
        row.update(split=split, index=index or 0)

    manager.reset_environment = reset_row  # the button Reset calls it without options
    splits = [
        (f"{name} ({environment.num_tasks(name)} rows)", name)
        for name in environment.list_splits()
    ]
    with gradio.Blocks() as page:
        with gradio.Row(elem_classes="oe-card"):
            # Functions, because all who open the page share one episode.
            split = gradio.Dropdown(
                splits, value=lambda: row["split"], label="split that Reset plays"
            )
            index = gradio.Number(
                lambda: row["index"], label="row, from 0", precision=0, minimum=0
            )
        gradio.on([split.input, index.input], choose, [split, index])
        build_gradio_app(manager, fields, manager.metadata, is_chat, title, start)
    return page
