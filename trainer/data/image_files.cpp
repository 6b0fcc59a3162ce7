#include "trainer/data/image_files.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <exception>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/start_thread.hpp"
#include "trainer/data/decode_image.hpp"
#include "trainer/data/image_shape.hpp"
#include "trainer/data/read_file.hpp"
#include "trainer/data/resize.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

/// Calls `work` with 0 to count - 1 on `threads` threads. Throws what the lowest number that fails
/// throws: numbers are given out in order, so all below one that has failed are done, too.
class ParallelLoop {
 public:
  ParallelLoop(std::size_t count, std::function<void(std::size_t)> work)
      : count_(count), work_(std::move(work)) {}

  void run(int threads) {
    std::vector<std::thread> others;
    for (int i = 1; i < threads; ++i) {
      auto started = start_thread("decode", [this] { take_all(); });
      if (!started) break;  // fewer threads are slower, no more
      others.push_back(std::move(*started));
    }
    take_all();
    for (std::thread& other : others) other.join();
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void take_all() {
    while (!failed_) {
      const std::size_t index = next_++;
      if (index >= count_) return;
      try {
        work_(index);
      } catch (...) {
        const std::lock_guard lock(mutex_);
        failed_ = true;
        if (error_ && failed_index_ < index) continue;
        failed_index_ = index;
        error_ = std::current_exception();
      }
    }
  }

  std::size_t count_;
  std::function<void(std::size_t)> work_;
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::size_t failed_index_ = 0;
  std::exception_ptr error_;
};

/// The largest image that is read, of 3 channels of two bytes each without compression, is smaller.
constexpr std::uint64_t kFileMax = std::uint64_t{512} << 20;

std::string lower(std::string text) {
  for (char& letter : text)
    letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
  return text;
}

ByteImage read_image(const std::filesystem::path& path, int channels) {
  return decode_image(read_file_or_gzip(path, kFileMax), channels, path.string());
}

/// Into `pixels` and, of a file with a mask, into `mask`.
void read_sample(const ImageFile& file, const ImageSettings& settings, std::uint8_t* pixels,
                 std::uint8_t* mask) {
  const ImageShape& shape = settings.shape;
  ByteImage image = read_image(file.image, shape.channels);
  const int height = image.shape.height;
  const int width = image.shape.width;
  const ByteImage sized = resize_bilinear(std::move(image), shape.height, shape.width);
  std::copy(sized.pixels.begin(), sized.pixels.end(), pixels);
  if (file.mask.empty()) return;
  const ByteImage drawn = read_image(file.mask, 1);
  if (drawn.shape.height != height || drawn.shape.width != width) {
    throw DataError(fmt::format("{}: a mask of {}x{} pixels, but its image {} has {}x{}",
                                file.mask.string(), drawn.shape.height, drawn.shape.width,
                                file.image.string(), height, width));
  }
  const int threshold = settings.mask_threshold.value_or(kMaskThreshold);
  for (const std::uint8_t value : resize_nearest(drawn, shape.height, shape.width).pixels)
    *mask++ = value >= threshold ? 255 : 0;
}

}  // namespace

std::vector<std::string> image_names(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code failed;
  for (std::filesystem::directory_iterator it(folder, failed), end; !failed && it != end;
       it.increment(failed)) {
    const std::string name = it->path().filename().string();
    const std::string extension = lower(it->path().extension().string());
    const bool is_image = extension == ".jpg" || extension == ".jpeg" || extension == ".png";
    if (is_image && !name.starts_with('.')) names.push_back(name);
  }
  if (failed) throw DataError(fmt::format("{}: {}", folder.string(), failed.message()));
  std::sort(names.begin(), names.end());
  return names;
}

ByteImages read_image_files(const std::vector<ImageFile>& files, const ImageSettings& settings) {
  const bool has_masks = !files.empty() && !files.front().mask.empty();
  const std::size_t size = sample_size(settings.shape);
  const std::size_t of_mask = has_masks ? mask_size(settings.shape) : 0;
  ByteImages images;
  images.shape = settings.shape;
  images.pixels.resize(files.size() * size);
  images.masks.resize(files.size() * of_mask);
  ParallelLoop loop(files.size(), [&](std::size_t i) {
    read_sample(files[i], settings, images.pixels.data() + i * size,
                images.masks.data() + i * of_mask);
  });
  loop.run(settings.threads);
  return images;
}

}  // namespace ddprun::trainer
