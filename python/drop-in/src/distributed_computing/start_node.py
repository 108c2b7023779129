"""The program ``start_node``."""

import argparse
import os
import sys
from typing import List, Optional

import neronet

from . import api


def main(words: Optional[List[str]] = None) -> int:
    """Has this machine ready for pools until it is interrupted."""
    parser = argparse.ArgumentParser(
        prog="start_node",
        description="Makes this machine ready for pools. Machines are reached by ssh: "
        "`neroman node add NAME ADDRESS` adds another one, once.")
    parser.add_argument("-r", "--password", required=True, help="taken, and not needed")
    parser.add_argument("-d", "--head", action="store_true", help="this is the head")
    parser.add_argument("-s", "--server-only", action="store_true",
                        help="the head itself takes no work")
    parser.add_argument("-a", "--address", help="the head's address")
    parser.add_argument("-p", "--port", type=int, help="taken, and not needed")
    parser.add_argument("-m", "--max-gpus", type=int, help="cards of this machine at most")
    parser.add_argument("-n", "--name", help="the name of this machine at another head")
    given = parser.parse_args(words)
    if not given.head and not given.address:
        parser.error("head or address must be provided")
    if given.server_only and not given.head:
        parser.error("server-only is only relevant for head nodes")
    print("password and port are not needed: machines are reached by ssh", file=sys.stderr)
    for option, is_idle in (("--address", given.head and given.address is not None),
                            ("--name", given.head and given.name is not None),
                            ("--max-gpus", given.server_only and given.max_gpus is not None)):
        if is_idle:
            print("{} has no effect here".format(option), file=sys.stderr)
    try:
        if given.server_only:
            terminate, wait = api.start_server()
            print("ready, and takes no work; further machines: neroman node add NAME ADDRESS, or "
                  "there: start_node -r … -a {}".format(os.uname().nodename), flush=True)
        elif given.head:
            terminate, wait = api.start_head_node(max_gpus=given.max_gpus)
            print("ready; further machines: neroman node add NAME ADDRESS, or there: start_node -r … "
                  "-a {}".format(os.uname().nodename), flush=True)
        else:
            terminate, wait = api.start_node(address=given.address, max_gpus=given.max_gpus,
                                            name=given.name)
        try:
            wait()
        except KeyboardInterrupt:
            terminate()
            wait()
    except neronet.NeronetError as error:
        print("error: {}".format(error), file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
