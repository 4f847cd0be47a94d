"""Start the server of a candidate's function: the script that runs in the candidate's own sandbox.

    python3 -I -B serve.py program.py:solve [ROOT]

Python compiles a script anew at each start, so this one is short; the byte code of the rest is used where it is.
"""

import sys
from importlib.machinery import SourceFileLoader

if __name__ == "__main__":
    # Loaded by file name, because only the candidate's own files may be on the import path.
    name = "loopty_function_server"
    loader = SourceFileLoader(name, __file__[: -len("serve.py")] + "function_server.py")
    server = sys.modules[name] = type(sys)(name)
    server.__file__ = loader.path
    loader.exec_module(server)
    server.main(*sys.argv[1:])
