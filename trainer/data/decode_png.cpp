// libpng ends an error by a jump. The functions that it may leave that way have no objects to be
// destroyed: those belong to PngReader, which outlives them.
#include <png.h>

#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <string>

#include "trainer/data/data_set.hpp"
#include "trainer/data/decoders.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

/// Eight of a byte in the file, which is one of 1032 or so when it is unpacked.
constexpr std::uint64_t kPngPixelsOfByte = 8 * 1100;
constexpr png_alloc_size_t kChunkBytesMax = 8U << 20;

class PngReader {
 public:
  explicit PngReader(std::span<const std::uint8_t> bytes) : rest_(bytes), bytes_(bytes.size()) {}
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  ByteImage read() {
    if (!read_header()) refuse();
    check_image_size(png_get_image_width(png_, info_), png_get_image_height(png_, info_), bytes_,
                     kPngPixelsOfByte);
    if (!choose_colours()) refuse();
    ByteImage image{.shape = {.height = static_cast<int>(png_get_image_height(png_, info_)),
                              .width = static_cast<int>(png_get_image_width(png_, info_)),
                              .channels = png_get_channels(png_, info_)},
                    .pixels = {}};
    const std::size_t row_bytes = png_get_rowbytes(png_, info_);
    const auto rows = static_cast<std::size_t>(image.shape.height);
    if ((image.shape.channels != 1 && image.shape.channels != 3) ||
        row_bytes * rows != sample_size(image.shape))
      throw DataError("a PNG of an unknown kind: convert it");
    image.pixels.resize(sample_size(image.shape));
    rows_.resize(rows);
    for (std::size_t row = 0; row < rows; ++row) rows_[row] = image.pixels.data() + row * row_bytes;
    if (!read_rows()) refuse();
    return image;
  }

 private:
  [[noreturn]] static void fail(png_structp png, png_const_charp text) {
    auto& reader = *static_cast<PngReader*>(png_get_error_ptr(png));
    std::snprintf(reader.text_.data(), reader.text_.size(), "%s", text);
    std::longjmp(reader.jump_, 1);
  }
  static void ignore(png_structp /*png*/, png_const_charp /*text*/) {}
  static void give(png_structp png, png_bytep out, std::size_t count) {
    auto& reader = *static_cast<PngReader*>(png_get_io_ptr(png));
    if (reader.rest_.size() < count) png_error(png, "cut short");
    std::memcpy(out, reader.rest_.data(), count);
    reader.rest_ = reader.rest_.subspan(count);
  }
  [[noreturn]] void refuse() const {
    throw DataError("damaged PNG (" + std::string(text_.data()) +
                    "): copy the file anew, or remove it");
  }

  bool read_header() {
    if (setjmp(jump_) != 0) return false;
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, fail, ignore);
    if (png_ == nullptr) return false;
    info_ = png_create_info_struct(png_);
    if (info_ == nullptr) return false;
    png_set_read_fn(png_, this, give);
    // Else libpng's own limits, which are lower for images that we would name as too large.
    png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_set_chunk_malloc_max(png_, kChunkBytesMax);
    png_read_info(png_, info_);
    return true;
  }

  /// 8 bits of grey or colours.
  bool choose_colours() {
    if (setjmp(jump_) != 0) return false;
    png_set_expand(png_);
    png_set_scale_16(png_);
    png_set_strip_alpha(png_);
    png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    return true;
  }

  bool read_rows() {
    if (setjmp(jump_) != 0) return false;
    png_read_image(png_, rows_.data());
    return true;
  }

  std::span<const std::uint8_t> rest_;  // not given to libpng yet
  std::uint64_t bytes_;
  std::array<char, 200> text_{"not enough memory"};
  std::jmp_buf jump_{};
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::vector<png_bytep> rows_;
};

}  // namespace

ByteImage decode_png(std::span<const std::uint8_t> bytes) { return PngReader(bytes).read(); }

}  // namespace ddprun::trainer
