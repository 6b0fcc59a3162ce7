"""What a script finds: its arguments, its name, the module path, the variables that count ranks."""

import os
import sys

names = ["RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "ROLE_NAME", "WORLD_SIZE", "LOCAL_WORLD_SIZE",
         "GROUP_WORLD_SIZE", "ROLE_WORLD_SIZE", "TORCHELASTIC_RESTART_COUNT", "TORCHELASTIC_MAX_RESTARTS"]
print(f"RESULT {__name__} {os.path.basename(sys.argv[0])} {sys.argv[1:]} "
      f"{[os.environ.get(name) for name in names]}\n", end="")
