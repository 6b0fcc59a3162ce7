// The tables of the bundled models, and the blocks that several of them have; make_model() chooses
// among them. They throw DataError if the images are too small.
#pragma once

#include <array>
#include <string>

#include "trainer/model/graph_builder.hpp"

namespace ddprun::trainer {

/// How a ResNet begins.
enum class Stem {
  small,     ///< 3x3 convolution: for images of about 28 pixels ("Dive into Deep Learning")
  imagenet,  ///< 7x7 convolution of stride 2, 3x3 max-pooling of stride 2: torchvision's
};

/// The encoder of a U-Net.
enum class ResnetDepth { layers34, layers101 };

/// How a U-Net's decoder doubles height and width.
enum class Decoder {
  bilinear,  ///< bilinear with half-pixel centres, then two 3x3 convolutions
  deconv,    ///< a 3x3 convolution, then a 4x4 transposed one of stride 2
};

/// How large a text classifier is.
enum class TextSize {
  tiny,   ///< 2 layers of 128 channels, 2 heads, 512 inner channels; the data's vocabulary
  base,   ///< roberta-base: 12 layers of 768 channels, 12 heads, 3,072 inner; 50,265 tokens
  large,  ///< roberta-large: 24 layers of 1,024 channels, 16 heads, 4,096 inner; 50,265 tokens
};

Graph lenet(ImageShape image, int classes);
/// 57.0 million parameters for 10 classes; images of at least 63 pixels. `dropout`: the probability
/// in both layers, torchvision's is 0.5.
Graph alexnet(ImageShape image, int classes, double dropout);
/// 11.2 million parameters for 10 classes.
Graph resnet18(ImageShape image, int classes, Stem stem);
/// 29.3 million parameters with 3 channels and the bilinear decoder, of which 14.7 million are
/// VGG16's 13 convolutions. Learns masks: one logit a pixel, binary cross-entropy with
/// `positive_weight`. Names and initial values: the encoder's are those of torchvision's vgg16
/// (features.0 to features.28), so that its weights can be loaded; the decoder, with 32 filters, is
/// center, dec5 to dec2, dec1 and final, with PyTorch's default values:
///   at = center(pool(e5)); at = dec5(cat(at, e5)); ... dec2(cat(at, e2)); dec1(cat(at, e1)); final
/// where e1 to e5 are the encoder's stages before their pooling. Throws DataError where a side is
/// no multiple of 32.
Graph unet16(ImageShape image, Decoder decoder, double positive_weight);
/// Learns masks, as unet16. With 3 channels and the bilinear decoder 34.6 million parameters,
/// or 74.6 million with 101 layers. Names and initial values: the encoder's (conv1, bn1, layer1 to
/// layer4) are those of torchvision's resnet34 and resnet101, so that their weights can be loaded;
/// the decoder, with 32 filters, is center, dec5 to dec1, dec0 and final, with PyTorch's default
/// values. The pooling behind bn1 is 2x2, not torchvision's 3x3:
///   e1 = layer1(max_pool(relu(bn1(conv1(x))), 2)); e2 = layer2(e1); ...; at = center(pool(e4))
///   at = dec5(cat(at, e4)); ... dec2(cat(at, e1)); dec1; dec0; 2-D dropout; final
/// `dropout`: the probability, 0.2 in the original. Throws DataError where a side is no multiple of
/// 64.
Graph unet_resnet(ImageShape image, ResnetDepth depth, Decoder decoder, double dropout,
                  double positive_weight);

/// RoBERTa with learned positions from 2 (for at most 512 tokens), layer norm behind each sum
/// (epsilon 1e-5), GELU, and a head that reads the first token: dense, tanh, out_proj. Names as in
/// transformers' RobertaForSequenceClassification: roberta.embeddings.word_embeddings.weight to
/// classifier.out_proj.bias. Initial values: weights and embeddings normal with the deviation 0.02
/// (transformers sets the row of the padding to 0; here nothing reads it), biases 0, norms 1 and 0.
/// `dropout`: of embeddings, attention's probabilities, both outputs of each layer, and twice in
/// the head. tiny has 0.5 million parameters beside 128 for each token, base 124.6 million and
/// large 355.4 million, each with 2 classes.
Graph textclf(TextSize size, int vocabulary, int classes, double dropout);
/// What it reads.
TextShape textclf_shape(TextSize size, int vocabulary);

enum class ResidualBlock {
  basic,       ///< two 3x3 convolutions: ResNet-18 and -34
  bottleneck,  ///< 1x1, 3x3 (which has the stride), 1x1 to four times the channels: ResNet-50 on
};

/// A convolution without bias that keeps the size (but for the stride), with He's initial values.
layer::Convolution residual_convolution(int size, int stride);

/// layer1 to layer4: stage s has blocks[s] blocks of 64 * 2^s channels (times four for
/// bottlenecks), and each stage but the first halves height and width. Gives the last layer of each
/// stage.
std::array<int, 4> residual_stages(GraphBuilder& graph, int from, ResidualBlock kind,
                                   const std::array<int, 4>& blocks);

inline constexpr Window kUnetConvolution{.size = 3, .stride = 1, .padding = 1};
/// Channels of the decoder's layers are multiples of it.
inline constexpr int kUnetFilters = 32;
inline constexpr Window kUnetPool{.size = 2, .stride = 2, .padding = 0};

/// 3x3 with a ReLU and PyTorch's default initial values.
int unet_convolution(GraphBuilder& graph, const std::string& name, int from, int channels);

/// Twice the height and the width: bilinear and two convolutions (NAME.block.1.conv to `middle`
/// channels, NAME.block.2.conv), or a convolution and a transposed one (NAME.block.0.conv,
/// NAME.block.1).
int unet_block(GraphBuilder& graph, Decoder decoder, const std::string& name, int from, int middle,
               int channels);

/// Throws DataError, which names the size that fits, where a side is no multiple of `divisor`.
void check_unet_sides(ImageShape image, int divisor, const std::string& model);

}  // namespace ddprun::trainer
