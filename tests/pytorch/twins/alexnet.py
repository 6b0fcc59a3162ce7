"""alexnet of `train` in PyTorch (trainer/model/alexnet.cpp), with torchvision's names."""

from dropout import Dropout
from torch import nn


class AlexNet(nn.Module):
    def __init__(self, image_shape, classes=10, dropout=0.5):
        super().__init__()
        pool = nn.MaxPool2d(3, 2)
        self.features = nn.Sequential(
            nn.Conv2d(image_shape[2], 64, 11, 4, 2), nn.ReLU(), pool,
            nn.Conv2d(64, 192, 5, 1, 2), nn.ReLU(), pool,
            nn.Conv2d(192, 384, 3, 1, 1), nn.ReLU(),
            nn.Conv2d(384, 256, 3, 1, 1), nn.ReLU(),
            nn.Conv2d(256, 256, 3, 1, 1), nn.ReLU(), pool,
            nn.AdaptiveAvgPool2d(6), nn.Flatten())
        self.classifier = nn.Sequential(
            Dropout(dropout, 0), nn.Linear(256 * 6 * 6, 4096), nn.ReLU(),
            Dropout(dropout, 1), nn.Linear(4096, 4096), nn.ReLU(),
            nn.Linear(4096, classes))

    def forward(self, x):
        return self.classifier(self.features(x))
