// libpng ends an error by a jump. The functions that it may leave that way have no objects to be
// destroyed: those belong to PngReader, which outlives them.
#include <png.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include "trainer/data/data_set.hpp"
#include "trainer/data/decode_image.hpp"
#include "trainer/data/read_file.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

/// Eight of a byte in the file, which is one of 1032 or so when it is unpacked.
constexpr std::uint64_t kPngPixelsOfByte = 8 * 1100;
constexpr std::size_t kSignatureBytes = 8;
/// The label of what belongs to no class, as the border of an object in Pascal VOC.
constexpr std::uint8_t kBorderLabel = 255;

/// Read here, because libpng would hold the chunk and does not see one behind the pixels.
int orientation_of(std::span<const std::uint8_t> bytes) {
  constexpr std::size_t kHead = 8, kChecksum = 4, kKind = 4;
  constexpr std::array<std::uint8_t, kKind> kExif{'e', 'X', 'I', 'f'};
  std::span<const std::uint8_t> rest = bytes.subspan(std::min(kSignatureBytes, bytes.size()));
  while (rest.size() >= kHead + kChecksum) {
    const std::size_t size = big_endian(rest);
    if (size > rest.size() - kHead - kChecksum) break;
    const auto checked = rest.subspan(kKind, kKind + size);
    const bool is_exif = std::equal(kExif.begin(), kExif.end(), checked.begin());
    if (is_exif &&
        crc32_z(0, checked.data(), checked.size()) == big_endian(rest.subspan(kHead + size)))
      return exif_orientation(checked.subspan(kKind));
    rest = rest.subspan(kHead + size + kChecksum);
  }
  return 1;
}

class PngReader {
 public:
  PngReader(std::span<const std::uint8_t> bytes, PaletteUse use)
      : bytes_(bytes), rest_(bytes), use_(use) {}
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  ByteImage read() {
    if (!read_header()) refuse();
    has_labels_ = use_ == PaletteUse::mask && has_colours_in_palette();
    check_image_size(png_get_image_width(png_, info_), png_get_image_height(png_, info_),
                     bytes_.size(), kPngPixelsOfByte);
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
    if (has_labels_) {
      for (std::uint8_t& label : image.pixels)
        label = label == 0 || label == kBorderLabel ? 0 : 255;
    }
    const std::uint64_t held = image.pixels.size();
    return turned(std::move(image), orientation_of(bytes_), held);
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
    // Neither texts nor profiles are unpacked: a small file could fill the memory with them. What
    // pixels need, palettes and transparent colours, is read all the same.
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_set_chunk_malloc_max(png_, 0);  // else a large text that is skipped is refused
    png_read_info(png_, info_);
    return true;
  }

  [[nodiscard]] bool has_colours_in_palette() const {
    png_colorp colours = nullptr;
    int count = 0;
    return png_get_color_type(png_, info_) == PNG_COLOR_TYPE_PALETTE &&
           png_get_PLTE(png_, info_, &colours, &count) != 0 &&
           std::any_of(colours, colours + count, [](const png_color& colour) {
             return colour.red != colour.green || colour.red != colour.blue;
           });
  }

  /// 8 bits of grey or colours, or of indices.
  bool choose_colours() {
    if (setjmp(jump_) != 0) return false;
    if (has_labels_) {
      png_set_packing(png_);
    } else {
      png_set_expand(png_);
    }
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

  std::span<const std::uint8_t> bytes_;
  std::span<const std::uint8_t> rest_;  // not given to libpng yet
  const PaletteUse use_;
  bool has_labels_ = false;  // the pixels are indices of the palette
  std::array<char, 200> text_{"not enough memory"};
  std::jmp_buf jump_{};
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
  std::vector<png_bytep> rows_;
};

}  // namespace

ByteImage decode_png(std::span<const std::uint8_t> bytes, PaletteUse use) {
  return PngReader(bytes, use).read();
}

}  // namespace ddprun::trainer
