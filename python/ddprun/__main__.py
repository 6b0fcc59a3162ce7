"""python -m ddprun ...: becomes the program ddprun, with this Python for its scripts."""

import sys

from ddprun._programs import become_ddprun

if __name__ == "__main__":
    sys.exit(become_ddprun(sys.argv[1:]))
