// The tables of the bundled models; make_model() chooses among them. They throw DataError if the
// images are too small.
#pragma once

#include <string>

#include "trainer/model/graph.hpp"

namespace ddprun::trainer {

/// How a ResNet begins.
enum class Stem {
  small,     ///< 3x3 convolution: for images of about 28 pixels ("Dive into Deep Learning")
  imagenet,  ///< 7x7 convolution of stride 2, 3x3 max-pooling of stride 2: torchvision's
};

Graph lenet(ImageShape image, int classes);
/// 57.0 million parameters for 10 classes; images of at least 63 pixels. `dropout`: the probability
/// in both layers, torchvision's is 0.5.
Graph alexnet(ImageShape image, int classes, double dropout);
/// 11.2 million parameters for 10 classes.
Graph resnet18(ImageShape image, int classes, Stem stem);

}  // namespace ddprun::trainer
