"""The facts that the template's Jinja files and this package share: facts.json.

`archetypes` has each archetype and what it is, in the order in which Copier offers them.
`server_paths` are the first parts of the server's own paths: no tool can be called so,
because its calls would not reach the class. `secrets` are patterns of files and folders
that hold keys, anywhere in a project: no image, Space, package or sandbox gets them.
"""

import json
import pkgutil

# A build of verifiers/ and of images imports this from a wheel, which is a zip file.
_facts = json.loads(pkgutil.get_data(__package__ or "", "facts.json") or "")

ARCHETYPES: dict[str, str] = _facts["archetypes"]
SERVER_PATHS: frozenset[str] = frozenset(_facts["server_paths"])
SECRETS: list[str] = _facts["secrets"]
