"""A running server, as a client sees it."""

import contextlib
import json
import os
from typing import Any
from urllib.parse import urlsplit

import requests

from plumbing.records import Item, RolloutError, Tools, one_line


class Client:
    """The server at `url`, else at ENV_URL, else at http://127.0.0.1:11000."""

    def __init__(self, url: str | None = None) -> None:
        url = url or os.environ.get("ENV_URL") or "http://127.0.0.1:11000"
        self.url = url.rstrip("/")

    def session(self) -> "ClientSession":
        """A session with a cookie of its own: good for one episode."""
        return ClientSession(self.url)

    def tools(self) -> Tools:
        """The definitions of the server's tools, for the Responses API."""
        return self.session().fetch("GET", "/tools")["tools"]


class ClientSession:
    """One episode: a requests.Session, whose cookie the server knows it by."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.http = requests.Session()
        # Neither a proxy nor .netrc has a say in what stays on this machine.
        self.http.trust_env = urlsplit(url).hostname not in (
            "127.0.0.1",
            "localhost",
            "::1",
        )
        if token := os.environ.get("API_TOKEN"):
            self.http.headers["Authorization"] = f"Bearer {token}"

    def request(self, method: str, path: str, json: Any = None) -> requests.Response:
        """Raises RolloutError if nothing answers; any HTTP status is returned."""
        try:
            answer = self.http.request(method, self.url + path, json=json, timeout=300)
        except requests.ConnectionError:
            raise RolloutError(
                f"no server answers at {self.url}: start one with "
                "`uv run python server.py`, or name one in ENV_URL"
            ) from None
        except (requests.RequestException, ValueError) as error:
            raise RolloutError(
                f"{method} {self.url}{path}: {one_line(error)}"
            ) from None
        answer.encoding = "utf-8"  # JSON's, which requests would not assume
        return answer

    def fetch(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """Raises RolloutError unless the answer is a JSON object of status 200."""
        response = self.request(method, path, body)
        try:
            answer = response.json()
        except ValueError:
            answer = None
        if response.status_code != 200 or not isinstance(answer, dict):
            raise RolloutError(f"{method} {path} answered {problem(response)}")
        return answer

    def post(self, path: str, body: Any) -> dict[str, Any]:
        return self.fetch("POST", path, body)

    def call_tools(self, tools: Tools, calls: list[Item]) -> list[Item]:
        """The results of function_call items, and their images in a user message.

        An image as text tells a model nothing, and NeMo Gym 0.4 takes only results of
        text.
        """
        names = {tool["name"] for tool in tools}
        results, images = [], []
        for call in calls:
            call_id, name = call["call_id"], call["name"]
            output, image = self._call(names, name, call["arguments"])
            results.append(
                {"type": "function_call_output", "call_id": call_id, "output": output}
            )
            if image:
                images += [
                    {"type": "input_text", "text": f"The image of {name} ({call_id}):"},
                    {"type": "input_image", "image_url": image, "detail": "auto"},
                ]
        if images:
            results.append({"type": "message", "role": "user", "content": images})
        return results

    def _call(
        self, names: set[str], name: str, arguments: str
    ) -> tuple[str, str | None]:
        """The body of a tool's answer, {"output": ...}, less its image; and the image.

        What the policy did wrong, or the tool could not do, is an output that says so.
        """

        def refusal(reason: str) -> tuple[str, None]:
            return json.dumps({"output": f"error: {reason}"}, ensure_ascii=False), None

        if name not in names:  # not even posted: /verify is a path of the server's too
            return refusal(f"no tool {name!r}; there are {', '.join(sorted(names))}")
        try:
            given = json.loads(arguments or "{}")
            json.dumps(given, allow_nan=False)
        except (ValueError, TypeError, RecursionError) as error:
            return refusal(f"the arguments are not JSON: {error}")
        response = self.request("POST", f"/{name}", given)
        if response.status_code != 200:
            return refusal(problem(response))
        with contextlib.suppress(ValueError, AttributeError):  # no JSON, no object
            answer = response.json()
            image = answer.pop("image", None)
            if isinstance(image, str) and image.startswith("data:image/"):
                return json.dumps(answer, ensure_ascii=False), image
        return response.text, None


def problem(response: requests.Response) -> str:
    """An answer that is not a success, in one line."""
    try:
        detail = response.json()["detail"]
        if isinstance(detail, list):  # FastAPI's: one entry for each wrong argument
            detail = "; ".join(
                f"{'.'.join(map(str, one['loc'][1:])) or 'body'}: {one['msg']}"
                for one in detail
            )
    except (ValueError, KeyError, TypeError):
        detail = response.text
    return f"{response.status_code}: {one_line(detail)}"
