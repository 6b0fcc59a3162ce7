"""python -m ddprun ...: becomes the program ddprun, with this Python for its scripts."""

import sys

from ddprun._programs import become_ddprun

if __name__ == "__main__":
    if sys.argv[1:] == ["doctor"]:
        from ddprun import doctor

        del sys.argv[1:]
        sys.exit(doctor.main())
    sys.exit(become_ddprun(sys.argv[1:]))
