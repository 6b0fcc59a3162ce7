"""unet16 of `train` in PyTorch (trainer/model/unet16.cpp): the encoder has the names of torchvision's vgg16."""

import torch
from torch import nn
from torch.nn import functional

FILTERS = 32
STAGES = ((2, 64), (2, 128), (3, 256), (3, 512), (3, 512))  # of VGG16: convolutions, channels


class ConvRelu(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.conv = nn.Conv2d(inputs, outputs, 3, padding=1)

    def forward(self, x):
        return functional.relu(self.conv(x), inplace=True)


class DecoderBlock(nn.Module):
    """Twice the height and the width."""

    def __init__(self, inputs, middle, outputs, deconv):
        super().__init__()
        if deconv:
            self.block = nn.Sequential(ConvRelu(inputs, middle), nn.ConvTranspose2d(middle, outputs, 4, 2, 1),
                                       nn.ReLU(inplace=True))
        else:
            self.block = nn.Sequential(nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False),
                                       ConvRelu(inputs, middle), ConvRelu(middle, outputs))

    def forward(self, x):
        return self.block(x)


class UNet16(nn.Module):
    def __init__(self, image_shape, decoder="bilinear"):
        super().__init__()
        self.features = nn.Sequential()
        self.ends = []  # the module after each stage's last
        inputs = image_shape[2]
        number = 0
        for convolutions, channels in STAGES:
            for _ in range(convolutions):
                self.features.add_module(str(number), nn.Conv2d(inputs, channels, 3, padding=1))
                self.features.add_module(str(number + 1), nn.ReLU(inplace=True))
                inputs, number = channels, number + 2
            self.ends.append(len(self.features))
            number += 1  # the pooling

        def block(inputs, middle, outputs):
            return DecoderBlock(inputs, middle * FILTERS, outputs * FILTERS, decoder == "deconv")

        self.center = block(512, 16, 8)
        self.dec5 = block(512 + 8 * FILTERS, 16, 8)
        self.dec4 = block(512 + 8 * FILTERS, 16, 8)
        self.dec3 = block(256 + 8 * FILTERS, 8, 2)
        self.dec2 = block(128 + 2 * FILTERS, 4, 1)
        self.dec1 = ConvRelu(64 + FILTERS, FILTERS)
        self.final = nn.Conv2d(FILTERS, 1, 1)
        for module in self.features:
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
                nn.init.zeros_(module.bias)

    def forward(self, x):
        stages = []
        begin = 0
        for end in self.ends:
            if begin > 0:
                x = functional.max_pool2d(x, 2)
            x = self.features[begin:end](x)
            stages.append(x)
            begin = end
        x = self.center(functional.max_pool2d(x, 2))
        for decoder, stage in zip((self.dec5, self.dec4, self.dec3, self.dec2, self.dec1), reversed(stages)):
            x = decoder(torch.cat((x, stage), 1))
        return self.final(x)
