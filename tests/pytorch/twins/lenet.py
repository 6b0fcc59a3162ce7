"""lenet of `train` in PyTorch (trainer/model/lenet.cpp)."""

from torch import nn
from torch.nn import functional


class LeNet(nn.Module):
    def __init__(self, image_shape=(28, 28, 1), classes=10):
        super().__init__()
        height, width, channels = image_shape
        self.conv1 = nn.Conv2d(channels, 16, 5, padding=2)
        self.conv2 = nn.Conv2d(16, 32, 5, padding=2)
        self.fc1 = nn.Linear(32 * (height // 4) * (width // 4), 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, classes)

    def forward(self, x):
        x = functional.relu(functional.max_pool2d(self.conv1(x), 2))
        x = functional.relu(functional.max_pool2d(self.conv2(x), 2)).flatten(1)
        return self.fc3(functional.relu(self.fc2(functional.relu(self.fc1(x)))))
