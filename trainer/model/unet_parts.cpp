#include "trainer/model/unet_parts.hpp"

#include "base/rounded_up.hpp"

namespace ddprun::trainer {

int unet_convolution(Graph& graph, const std::string& name, int from, int channels) {
  return graph.relu(graph.convolution(name, from, channels, kUnetConvolution));
}

int unet_block(Graph& graph, Decoder decoder, const std::string& name, int from, int middle,
               int channels) {
  if (decoder == Decoder::deconv) {
    const int at = unet_convolution(graph, name + ".block.0.conv", from, middle);
    return graph.relu(graph.transposed_convolution(
        name + ".block.1", at, channels, {.window = {.size = 4, .stride = 2, .padding = 1}}));
  }
  const int at = unet_convolution(graph, name + ".block.1.conv", graph.upsample(from), middle);
  return unet_convolution(graph, name + ".block.2.conv", at, channels);
}

void check_unet_sides(ImageShape image, int divisor, const std::string& model) {
  if (image.height % divisor == 0 && image.width % divisor == 0) return;
  const ImageShape fitting{rounded_up(image.height, divisor), rounded_up(image.width, divisor),
                           image.channels};
  throw DataError("images of " + to_string(image) + " do not fit " + model +
                  ", which needs sides that are multiples of " + std::to_string(divisor) +
                  ": use " + to_string(fitting) + ", or another --model");
}

}  // namespace ddprun::trainer
