// A U-Net over VGG16's convolutions: O. Ronneberger et al., "U-Net", 2015; K. Simonyan and
// A. Zisserman, "Very deep convolutional networks", 2014; the two together and the names of the
// decoder's parts are those of "TernausNet" (V. Iglovikov, A. Shvets, 2018).
#include <string>
#include <utility>
#include <vector>

#include "trainer/model/model_tables.hpp"

namespace ddprun::trainer {
namespace {

constexpr int kFilters = 32;
constexpr int kDivisor = 32;  // five times halved, and doubled again
constexpr Window kSame{.size = 3, .stride = 1, .padding = 1};
constexpr Window kHalve{.size = 2, .stride = 2, .padding = 0};

class UnetBuilder {
 public:
  UnetBuilder(ImageShape image, Decoder decoder) : graph_(image), decoder_(decoder) {}

  Graph build(double positive_weight) {
    const std::vector<int> stages = encoder();
    int at = block("center", graph_.max_pool(stages[4], kHalve), 16, 8);
    at = block("dec5", graph_.concat(at, stages[4]), 16, 8);
    at = block("dec4", graph_.concat(at, stages[3]), 16, 8);
    at = block("dec3", graph_.concat(at, stages[2]), 8, 2);
    at = block("dec2", graph_.concat(at, stages[1]), 4, 1);
    at = convolution("dec1.conv", graph_.concat(at, stages[0]), kFilters);
    const int logits = graph_.convolution("final", at, 1, Window{});
    graph_.binary_cross_entropy(logits, positive_weight);
    graph_.finish();
    return std::move(graph_);
  }

 private:
  /// torchvision's VGG16: the last layer of each stage before its pooling. Numbers count its
  /// modules, ReLUs and poolings included.
  std::vector<int> encoder() {
    struct Stage {
      int convolutions, channels;
    };
    const layer::Convolution he{.window = kSame, .he_initial = true};
    std::vector<int> ends;
    int at = 0;
    int module = 0;
    for (const Stage& stage : {Stage{2, 64}, {2, 128}, {3, 256}, {3, 512}, {3, 512}}) {
      if (!ends.empty()) at = graph_.max_pool(at, kHalve);
      for (int i = 0; i < stage.convolutions; ++i, module += 2) {
        const std::string name = "features." + std::to_string(module);
        at = graph_.relu(graph_.convolution(name, at, stage.channels, he));
      }
      ++module;  // the pooling
      ends.push_back(at);
    }
    return ends;
  }

  int convolution(const std::string& name, int from, int channels) {
    return graph_.relu(graph_.convolution(name, from, channels, kSame));
  }

  /// Twice the height and the width. Channels are multiples of kFilters.
  int block(const std::string& name, int from, int middle, int channels) {
    if (decoder_ == Decoder::deconv) {
      const int at = convolution(name + ".block.0.conv", from, middle * kFilters);
      return graph_.relu(
          graph_.transposed_convolution(name + ".block.1", at, channels * kFilters,
                                        {.window = {.size = 4, .stride = 2, .padding = 1}}));
    }
    const int at = convolution(name + ".block.1.conv", graph_.upsample(from), middle * kFilters);
    return convolution(name + ".block.2.conv", at, channels * kFilters);
  }

  Graph graph_;
  Decoder decoder_;
};

}  // namespace

Graph unet16(ImageShape image, Decoder decoder, double positive_weight) {
  if (image.height % kDivisor != 0 || image.width % kDivisor != 0) {
    const auto next = [](int length) { return (length + kDivisor - 1) / kDivisor * kDivisor; };
    throw DataError("images of " + size_text(image.height, image.width) +
                    " pixels do not fit unet16, which needs sides that are multiples of " +
                    std::to_string(kDivisor) + ": use " +
                    size_text(next(image.height), next(image.width)) + ", or another --model");
  }
  return UnetBuilder(image, decoder).build(positive_weight);
}

}  // namespace ddprun::trainer
