#include "trainer/data/image_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/lower_case.hpp"
#include "trainer/data/decode_image.hpp"
#include "trainer/data/list_folder.hpp"
#include "trainer/data/read_file.hpp"
#include "trainer/data/resize.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

/// The largest image that is read, of 3 channels of two bytes each without compression, is smaller.
constexpr std::uint64_t kFileMax = std::uint64_t{512} << 20;

}  // namespace

std::vector<std::string> image_names(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (FolderEntry& entry : list_folder(folder)) {
    const std::string extension =
        lower_case(std::filesystem::path(entry.name).extension().string());
    const bool is_image = extension == ".jpg" || extension == ".jpeg" || extension == ".png";
    if (is_image && !entry.name.starts_with('.')) names.push_back(std::move(entry.name));
  }
  return names;
}

std::uint64_t read_image_file(const ImageFile& file, const ImageSettings& settings,
                              std::span<std::uint8_t> pixels, std::span<std::uint8_t> mask) {
  const ImageShape& shape = settings.shape;
  ByteImage image =
      decode_image(read_file_or_gzip(file.image, kFileMax), shape.channels, file.image);
  const int height = image.shape.height;
  const int width = image.shape.width;
  const std::uint64_t most =
      std::max(image.decode_bytes, resizing_bytes(image.shape, shape.height, shape.width));
  const ByteImage sized = resize_bilinear(std::move(image), shape.height, shape.width);
  std::copy(sized.pixels.begin(), sized.pixels.end(), pixels.begin());
  if (file.mask.empty()) return most;
  const ByteImage drawn = decode_mask(read_file_or_gzip(file.mask, kFileMax), file.mask);
  if (drawn.shape.height != height || drawn.shape.width != width) {
    throw DataError(fmt::format(
        "{}: a mask of {}x{} pixels, but its image {} has {}x{}: make both of one size, "
        "or remove both",
        file.mask, drawn.shape.height, drawn.shape.width, file.image, height, width));
  }
  const int threshold = settings.mask_threshold.value_or(kMaskThreshold);
  auto marked = mask.begin();
  for (const std::uint8_t value : resize_nearest(drawn, shape.height, shape.width).pixels)
    *marked++ = value >= threshold ? 255 : 0;
  return std::max(most, sized.pixels.size() + drawn.decode_bytes);
}

}  // namespace ddprun::trainer
