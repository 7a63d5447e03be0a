# Plain images to compare with: a small server of each framework, as its users would write it, in one stage with uv.
# docker build -f plain_images.Dockerfile --target gym|openenv|ors .
FROM python:3.13-slim AS plain
COPY --from=ghcr.io/astral-sh/uv:0.13 /uv /usr/local/bin/
ENV UV_SYSTEM_PYTHON=1 UV_NO_CACHE=1 PYTHONUNBUFFERED=1
WORKDIR /app
EXPOSE 8000
CMD ["python", "server.py"]

FROM plain AS gym
RUN uv pip install nemo-gym
COPY <<EOF server.py
import uvicorn
from nemo_gym.config_types import BaseServerConfig
from nemo_gym.server_utils import ServerClient
from omegaconf import OmegaConf
from resources_servers.example_session_state_mgmt import app

config = app.StatefulCounterResourcesServerConfig(
    host="0.0.0.0", port=8000, name="example", entrypoint="app.py", domain="other"
)
head = BaseServerConfig(host="127.0.0.1", port=1)
client = ServerClient(head_server_config=head, global_config_dict=OmegaConf.create({}))
server = app.StatefulCounterResourcesServer(config=config, server_client=client)
uvicorn.run(server.setup_webserver(), host="0.0.0.0", port=8000)
EOF

FROM plain AS openenv
RUN uv pip install openenv
COPY <<EOF server.py
import uvicorn
from openenv.core.env_server import http_server, interfaces, types


class Call(types.Action):
    name: str = "count"


class Seen(types.Observation):
    output: str = ""


class Counter(interfaces.Environment):
    def reset(self, **options):
        self.count = 0
        return Seen(output="ready", done=False, reward=0.0)

    def step(self, action, **options):
        self.count += 1
        return Seen(output=str(self.count), done=False, reward=0.0)

    @property
    def state(self):
        return types.State()


uvicorn.run(http_server.create_app(Counter, Call, Seen), host="0.0.0.0", port=8000)
EOF

FROM plain AS ors
RUN uv pip install openreward
COPY <<EOF server.py
from openreward.environments import Environment, Server, TextBlock, ToolOutput, tool
from pydantic import BaseModel


class Nothing(BaseModel):
    pass


class Counter(Environment):
    @tool
    async def count(self, arguments: Nothing) -> ToolOutput:
        """Count."""
        return ToolOutput(blocks=[TextBlock(text="1")], reward=0.0, finished=False)

    async def get_prompt(self):
        return [TextBlock(text="Count.")]

    @classmethod
    def list_splits(cls):
        return ["test"]

    @classmethod
    def list_tasks(cls, split):
        return [{}]


Server([Counter]).run(host="0.0.0.0", port=8000)
EOF
