// libjpeg ends an error by a jump. The functions that it may leave that way have no objects to be
// destroyed: those belong to JpegReader, which outlives them.
#include <csetjmp>
#include <cstdio>
// Needs FILE and size_t before it.
#include <jerror.h>
#include <jpeglib.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "trainer/data/data_set.hpp"
#include "trainer/data/decode_image.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

/// One bit for each block of 8x8 pixels, and some room.
constexpr std::uint64_t kJpegPixelsOfByte = 1024;
/// A progressive file of more scans costs time and has no use.
constexpr int kScansMax = 500;
constexpr unsigned kExifMarker = JPEG_APP0 + 1;
constexpr unsigned kSegmentBytesMax = 0xffff;

class JpegReader {
 public:
  explicit JpegReader(std::span<const std::uint8_t> bytes) : bytes_(bytes) {
    info_.err = jpeg_std_error(&errors_);
    info_.client_data = this;
    errors_.error_exit = [](j_common_ptr info) { reader_of(info).fail(info); };
    errors_.emit_message = [](j_common_ptr info, int level) {
      if (level < 0 && is_damage(info->err->msg_code)) reader_of(info).fail(info);
    };
    progress_.progress_monitor = [](j_common_ptr info) {
      if (reinterpret_cast<j_decompress_ptr>(info)->input_scan_number > kScansMax)
        reader_of(info).fail(info, "too many scans");
    };
  }
  ~JpegReader() { jpeg_destroy_decompress(&info_); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  ByteImage read() {
    if (!read_header()) refuse();
    check_image_size(info_.image_width, info_.image_height, bytes_.size(), kJpegPixelsOfByte);
    const int orientation = orientation_of(info_.marker_list);
    const bool is_cmyk = choose_colours();
    ByteImage image{.shape = {.height = static_cast<int>(info_.image_height),
                              .width = static_cast<int>(info_.image_width),
                              .channels = is_cmyk ? 4 : channels_of(info_.out_color_space)},
                    .pixels = {}};
    std::uint64_t held = sample_size(image.shape);
    if (jpeg_has_multiple_scans(&info_) != FALSE) held += coefficient_bytes();
    image.pixels.resize(sample_size(image.shape));
    if (!read_rows(image.pixels.data(), sample_size(image.shape) / info_.image_height)) refuse();
    if (is_cmyk) {
      image = rgb_of(image);
      held = std::max<std::uint64_t>(held, image.pixels.size() / 3 * (4 + 3));
    }
    return turned(std::move(image), orientation, held);
  }

 private:
  static JpegReader& reader_of(j_common_ptr info) {
    return *static_cast<JpegReader*>(info->client_data);
  }
  /// What of libjpeg's warnings means that pixels are missing or wrong.
  static bool is_damage(int code) {
    return code != JWRN_EXTRANEOUS_DATA && code != JWRN_ADOBE_XFORM && code != JWRN_JFIF_MAJOR &&
           code != JWRN_TOO_MUCH_DATA;
  }
  static int channels_of(J_COLOR_SPACE space) { return space == JCS_GRAYSCALE ? 1 : 3; }

  /// Bytes of all blocks, which libjpeg holds until the last scan of a progressive file is read.
  [[nodiscard]] std::uint64_t coefficient_bytes() const {
    std::uint64_t blocks = 0;
    for (int i = 0; i < info_.num_components; ++i)
      blocks +=
          std::uint64_t{info_.comp_info[i].width_in_blocks} * info_.comp_info[i].height_in_blocks;
    return blocks * sizeof(JBLOCK);
  }

  [[noreturn]] void fail(j_common_ptr info, const char* text = nullptr) {
    if (text != nullptr) {
      std::snprintf(text_.data(), text_.size(), "%s", text);
    } else {
      info->err->format_message(info, text_.data());
    }
    std::longjmp(jump_, 1);
  }
  [[noreturn]] void refuse() const {
    throw DataError("damaged JPEG (" + std::string(text_.data()) +
                    "): copy the file anew, or remove it");
  }

  /// Before the rows are read: libjpeg frees the markers behind them.
  static int orientation_of(const jpeg_marker_struct* marker) {
    for (; marker != nullptr; marker = marker->next) {
      const int orientation = exif_orientation({marker->data, marker->data_length});
      if (orientation != 1) return orientation;
    }
    return 1;
  }

  bool read_header() {
    if (setjmp(jump_) != 0) return false;
    jpeg_create_decompress(&info_);
    info_.progress = &progress_;
    jpeg_mem_src(&info_, bytes_.data(), static_cast<unsigned long>(bytes_.size()));
    jpeg_save_markers(&info_, kExifMarker, kSegmentBytesMax);
    jpeg_read_header(&info_, TRUE);
    return true;
  }

  /// True: CMYK, which libjpeg does not convert.
  bool choose_colours() {
    switch (info_.jpeg_color_space) {
      case JCS_GRAYSCALE:
        info_.out_color_space = JCS_GRAYSCALE;
        return false;
      case JCS_YCbCr:
      case JCS_RGB:
        info_.out_color_space = JCS_RGB;
        return false;
      case JCS_CMYK:
      case JCS_YCCK:
        info_.out_color_space = JCS_CMYK;
        return true;
      default:
        throw DataError("a JPEG of other colours than grey, RGB and CMYK: convert it");
    }
  }

  bool read_rows(std::uint8_t* pixels, std::size_t row_bytes) {
    if (setjmp(jump_) != 0) return false;
    jpeg_start_decompress(&info_);
    while (info_.output_scanline < info_.output_height) {
      JSAMPROW row = pixels + info_.output_scanline * row_bytes;
      jpeg_read_scanlines(&info_, &row, 1);
    }
    jpeg_finish_decompress(&info_);
    return true;
  }

  /// Inverted CMYK, as Adobe's programs store it. Files of other programs without Adobe's marker
  /// are read so, too, as Pillow and torchvision read them.
  static ByteImage rgb_of(const ByteImage& cmyk) {
    ByteImage rgb{.shape = cmyk.shape, .pixels = {}};
    rgb.shape.channels = 3;
    rgb.pixels.reserve(sample_size(rgb.shape));
    for (std::size_t i = 0; i < cmyk.pixels.size(); i += 4) {
      const unsigned white = cmyk.pixels[i + 3];
      for (std::size_t c = 0; c < 3; ++c)
        rgb.pixels.push_back(static_cast<std::uint8_t>((cmyk.pixels[i + c] * white + 127) / 255));
    }
    return rgb;
  }

  std::span<const std::uint8_t> bytes_;
  std::array<char, JMSG_LENGTH_MAX> text_{};
  std::jmp_buf jump_{};
  jpeg_error_mgr errors_{};
  jpeg_progress_mgr progress_{};
  jpeg_decompress_struct info_{};
};

}  // namespace

ByteImage decode_jpeg(std::span<const std::uint8_t> bytes) { return JpegReader(bytes).read(); }

}  // namespace ddprun::trainer
