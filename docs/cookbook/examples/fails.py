import os
import time

if os.environ["RANK"] == "1":
    raise ValueError("the loss is nan at step 250")
time.sleep(60)
