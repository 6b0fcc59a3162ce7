import os

print(f"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']}")
