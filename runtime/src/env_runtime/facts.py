"""The facts that the template's Jinja files and this package share: facts.json.

`series` has each release series of NeMo Gym that the tests run on, the oldest first, and
the Python that it needs. `archetypes` has each archetype and what it is, in the order in which Copier offers them.
`frameworks` has each framework folder, with its package, the modules that the class's
could hide, and the members of its own classes, which no tool can be called. `graders`
are the choices for a dataset. `protocol` are the members of a class beside its tools:
the runtime calls `static` without an object, and `methods` on an episode's object.
`server_paths` are the first parts of the server's own paths: no tool can be called so,
because its calls would not reach the class. `secrets` are patterns of files and folders
that hold keys, anywhere in a project: no image, Space, package or sandbox gets them.
"""

import json
import pkgutil

# A build of verifiers/ and of images imports this from a wheel, which is a zip file.
_facts = json.loads(pkgutil.get_data(__package__ or "", "facts.json") or "")

SERIES: dict[str, str] = _facts["series"]
OLDEST, *_, NEWEST = SERIES
# Messages about features of the newest series end with this.
NEEDS_NEWEST = f"nemo-gym {NEWEST}, which needs Python {SERIES[NEWEST]} or newer"
ARCHETYPES: dict[str, str] = _facts["archetypes"]
FRAMEWORKS: tuple[str, ...] = tuple(_facts["frameworks"])
GRADERS: tuple[str, ...] = tuple(_facts["graders"])
STATIC: tuple[str, ...] = tuple(_facts["protocol"]["static"])
METHODS: tuple[str, ...] = tuple(_facts["protocol"]["methods"])
SERVER_PATHS: frozenset[str] = frozenset(_facts["server_paths"])
SECRETS: list[str] = _facts["secrets"]
