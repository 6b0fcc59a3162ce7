"""resnet18 of `train` in PyTorch (trainer/model/resnet.cpp), with torchvision's names."""

from torch import nn
from torch.nn import functional


class BasicBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = functional.relu(self.bn1(self.conv1(x)))
        return functional.relu(self.bn2(self.conv2(y)) + self.downsample(x))


def stage(kind, inputs, channels, count, stride, factor=1):
    """Blocks of one size; the first has the stride."""
    blocks = [kind(inputs, channels, stride)] + [kind(channels * factor, channels, 1) for _ in range(count - 1)]
    return nn.Sequential(*blocks)


class ResNet18(nn.Module):
    def __init__(self, image_shape, classes=10, stem="small"):
        super().__init__()
        kernel, stride, padding = {"small": (3, 1, 1), "imagenet": (7, 2, 3)}[stem]
        self.conv1 = nn.Conv2d(image_shape[2], 64, kernel, stride, padding, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.maxpool = nn.MaxPool2d(3, 2, 1) if stem == "imagenet" else nn.Identity()
        channels = 64
        for number, outputs in enumerate((64, 128, 256, 512), 1):
            setattr(self, f"layer{number}", stage(BasicBlock, channels, outputs, 2, 1 if number == 1 else 2))
            channels = outputs
        self.fc = nn.Linear(channels, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x):
        x = self.maxpool(functional.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(functional.adaptive_avg_pool2d(x, 1).flatten(1))
