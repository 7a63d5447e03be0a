"""The workspace of one episode: a private folder, and the commands that work in it.

Each backend is a module or a package here, and has the same six names:

    from env_runtime.workspace.local import Workspace

Workspace        makes a workspace: run_command, run_python, write, read, read_whole, close
WorkspaceError   the workspace has failed, which is not the policy's fault
isolation()      what keeps commands from this machine
missing()        what this machine lacks to run an episode, or None
refusal()        why untrusted policies should not be served here, or None
prepare_tests()  prepares the tests of a project, which need no account and no isolation
"""
