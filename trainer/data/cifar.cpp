#include "trainer/data/cifar.hpp"

#include <fmt/format.h>

#include <array>
#include <system_error>
#include <vector>

#include "trainer/data/read_file.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

constexpr const char* kTrainFiles[] = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                       "data_batch_4.bin", "data_batch_5.bin"};
constexpr const char* kTestFiles[] = {"test_batch.bin"};

using Files = std::span<const char* const>;

/// Bytes of those files that are there.
std::uint64_t bytes_of(const std::filesystem::path& folder, Files files) {
  std::uint64_t bytes = 0;
  for (const char* const file : files) {
    std::error_code unreadable;  // reported by the reader
    const std::uintmax_t size = std::filesystem::file_size(folder / file, unreadable);
    if (!unreadable) bytes += size;
  }
  return bytes;
}

ByteImages read_files(const std::filesystem::path& folder, Files files) {
  ByteImages images{.shape = {.height = kCifarSide, .width = kCifarSide, .channels = 3},
                    .classes = kCifarClasses,
                    .pixels = {},
                    .labels = {},
                    .masks = {}};
  // Not more than they have: what a vector grows into is held twice.
  const std::uint64_t records = bytes_of(folder, files) / kCifarRecord;
  images.pixels.reserve(static_cast<std::size_t>(records) * 3 * kCifarPlane);
  images.labels.reserve(static_cast<std::size_t>(records));
  for (const char* const name : files) {
    const std::filesystem::path file = folder / name;
    if (!std::filesystem::is_regular_file(file)) {
      throw DataError(
          fmt::format("{}: no {} there; CIFAR-10 is in data_batch_1.bin to data_batch_5.bin and "
                      "test_batch.bin",
                      folder.string(), name));
    }
    append_cifar(read_file_or_gzip(file), file.string(), images);
  }
  return images;
}

}  // namespace

void append_cifar(std::span<const std::uint8_t> bytes, const std::string& file,
                  ByteImages& images) {
  if (bytes.empty()) throw DataError(file + ": the file is empty");
  const std::size_t whole = bytes.size() / kCifarRecord;
  if (bytes.size() % kCifarRecord != 0) {
    throw DataError(
        fmt::format("{}: record {} is cut short: it has {} of {} bytes; copy the file anew", file,
                    whole, bytes.size() % kCifarRecord, kCifarRecord));
  }
  for (std::size_t record = 0; record < whole; ++record) {
    const auto one = bytes.subspan(record * kCifarRecord, kCifarRecord);
    if (one[0] >= kCifarClasses) {
      throw DataError(
          fmt::format("{}: record {} has the label {}, but CIFAR-10 has the labels 0 to {}: use "
                      "the files of its "
                      "binary version",
                      file, record, one[0], kCifarClasses - 1));
    }
    images.labels.push_back(one[0]);
    const auto planes = one.subspan(1);
    for (std::size_t i = 0; i < kCifarPlane; ++i) {
      for (std::size_t c = 0; c < 3; ++c) images.pixels.push_back(planes[c * kCifarPlane + i]);
    }
  }
}

TrainAndTest load_cifar(const std::filesystem::path& folder, const ImageFit& fit) {
  ByteImages train = read_files(folder, kTrainFiles);
  TrainAndTest sets =
      make_fitted_sets(folder, std::move(train), read_files(folder, kTestFiles), fit);
  sets.class_names = {"airplane", "automobile", "bird",  "cat",  "deer",
                      "dog",      "frog",       "horse", "ship", "truck"};
  return sets;
}

std::uint64_t known_cifar_bytes(const std::filesystem::path& folder, const ImageFit& fit) {
  const std::uint64_t records =
      (bytes_of(folder, kTrainFiles) + bytes_of(folder, kTestFiles)) / kCifarRecord;
  const std::uint64_t own = records * (kLabelBytes + kCifarRecord - 1);
  if (!fit.shape) return own;
  return fitted_bytes(own, records * (kLabelBytes + sample_size(*fit.shape)), fit);
}

}  // namespace ddprun::trainer
