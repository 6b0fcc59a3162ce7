import time

print("epoch 0")
time.sleep(3)
print("epoch 1")
