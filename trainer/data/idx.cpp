#include "trainer/data/idx.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "trainer/data/data_set.hpp"
#include "trainer/data/image_files.hpp"
#include "trainer/data/read_file.hpp"
#include "trainer/data/train_and_test.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

constexpr std::uint8_t kUnsignedByte = 0x08;

[[noreturn]] void refuse(const std::string& file, std::size_t offset, const std::string& why) {
  throw DataError(fmt::format("{}: offset {}: {}", file, offset, why));
}

IdxHeader parse_with_rank(std::span<const std::uint8_t> bytes, const std::string& file,
                          std::size_t rank_min, std::size_t rank_max, const char* what) {
  IdxHeader header = parse_idx(bytes, file);
  const std::size_t rank = header.dimensions.size();
  if (rank < rank_min || rank > rank_max) {
    refuse(file, 3, fmt::format("{} dimensions, but {}", rank, what));
  }
  return header;
}

void cut_header(std::vector<std::uint8_t>& bytes, const IdxHeader& header) {
  bytes.erase(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(header.payload_offset));
}

/// Empty: not found.
std::filesystem::path look_for(const std::filesystem::path& folder, const std::string& stem,
                               const std::string& kind) {
  for (const char* separator : {"-", "."}) {
    for (const char* suffix : {"", ".gz"}) {
      std::filesystem::path candidate = folder / (stem + separator + kind + suffix);
      if (std::filesystem::is_regular_file(candidate)) return candidate;
    }
  }
  return {};
}

std::filesystem::path find_one(const std::filesystem::path& folder, const std::string& stem,
                               const std::string& kind, const char* targets) {
  std::filesystem::path found = look_for(folder, stem, kind);
  if (!found.empty()) return found;
  throw DataError(
      fmt::format("{}: no {}-{} or {}-{}.gz there; the folder must hold the four files of an "
                  "MNIST-like set (train and t10k, images and {})",
                  folder.string(), stem, kind, stem, kind, targets));
}

void read_labels(const std::filesystem::path& file, const std::filesystem::path& images_file,
                 std::uint32_t images, ByteImages& result) {
  const std::vector<std::uint8_t> bytes = read_file_or_gzip(file);
  const IdxHeader header = parse_with_rank(bytes, file.string(), 1, 1, "labels have 1");
  if (header.dimensions[0] != images) {
    throw DataError(fmt::format("{} holds {} images, but {} holds {} labels", images_file.string(),
                                images, file.string(), header.dimensions[0]));
  }
  const auto payload = std::span(bytes).subspan(header.payload_offset);
  result.labels.assign(payload.begin(), payload.end());
  result.classes = *std::max_element(result.labels.begin(), result.labels.end()) + 1;
}

void read_masks(const std::filesystem::path& file, const std::filesystem::path& images_file,
                std::uint32_t images, ByteImages& result) {
  result.masks = read_file_or_gzip(file);
  const IdxHeader header = parse_with_rank(result.masks, file.string(), 3, 3, "masks have 3");
  const std::vector<std::uint32_t> wanted{images, static_cast<std::uint32_t>(result.shape.height),
                                          static_cast<std::uint32_t>(result.shape.width)};
  if (header.dimensions != wanted) {
    const auto text = [](const std::vector<std::uint32_t>& sides) {
      return fmt::format("{} of {}x{}", sides[0], sides[1], sides[2]);
    };
    throw DataError(fmt::format("{} holds images, {}, but {} holds masks, {}", images_file.string(),
                                text(wanted), file.string(), text(header.dimensions)));
  }
  cut_header(result.masks, header);
  result.classes = 1;
}

FileLabels labels_of(const ByteImages& images, const std::filesystem::path& file) {
  return {.file = file.string(),
          .labels = {images.labels.begin(), images.labels.end()},
          .place = [](std::size_t sample) { return fmt::format("sample {}", sample); }};
}

/// What the header says; 0: there is none, which the reader reports.
std::uint64_t claimed_count(const std::filesystem::path& images) {
  constexpr std::size_t kOffset = 4;
  const std::vector<std::uint8_t> start = read_start(images, 2 * kOffset);
  if (start.size() < 2 * kOffset) return 0;
  std::uint64_t count = 0;
  for (std::size_t i = kOffset; i < 2 * kOffset; ++i) count = count << 8 | start[i];
  return count;
}

}  // namespace

IdxHeader parse_idx(std::span<const std::uint8_t> bytes, const std::string& file) {
  if (bytes.size() < 4) refuse(file, bytes.size(), "cut short within the 4 bytes of the magic");
  if (bytes[0] != 0 || bytes[1] != 0) {
    refuse(file, 0,
           fmt::format("magic {:02x}{:02x}{:02x}{:02x} is not that of an IDX file (0000tt0d)",
                       bytes[0], bytes[1], bytes[2], bytes[3]));
  }
  if (bytes[2] != kUnsignedByte) {
    refuse(file, 2,
           fmt::format("element type 0x{:02x}; only unsigned bytes (0x08) are read", bytes[2]));
  }
  const std::size_t rank = bytes[3];
  if (rank < 1 || rank > 4) refuse(file, 3, fmt::format("{} dimensions; 1 to 4 are read", rank));

  IdxHeader header;
  header.payload_offset = 4 + 4 * rank;
  if (bytes.size() < header.payload_offset) {
    refuse(file, bytes.size(),
           fmt::format("cut short within the header of {} bytes", header.payload_offset));
  }
  std::uint64_t elements = 1;
  for (std::size_t i = 0; i < rank; ++i) {
    const std::size_t offset = 4 + 4 * i;
    const std::uint32_t dimension = big_endian(bytes.subspan(offset, 4));
    const std::uint32_t limit = i == 0 ? kIdxCountMax : kIdxSideMax;
    if (dimension == 0 || dimension > limit) {
      refuse(file, offset, fmt::format("dimension {} is {}, not 1 to {}", i, dimension, limit));
    }
    elements *= dimension;  // at most 4 factors, each bounded before the product can overflow
    if (elements > kFileBytesMax) {
      refuse(file, offset, fmt::format("more than {} bytes of elements", kFileBytesMax));
    }
    header.dimensions.push_back(dimension);
  }
  const std::uint64_t expected = header.payload_offset + elements;
  if (bytes.size() < expected) {
    refuse(file, bytes.size(),
           fmt::format("cut short: the header promises {} bytes in all", expected));
  }
  if (bytes.size() > expected) {
    refuse(file, static_cast<std::size_t>(expected),
           fmt::format("{} bytes more than the header promises", bytes.size() - expected));
  }
  return header;
}

ByteImages read_idx_pair(const std::filesystem::path& images, const std::filesystem::path& targets,
                         Target target) {
  ByteImages result;
  result.pixels = read_file_or_gzip(images);
  const IdxHeader header =
      parse_with_rank(result.pixels, images.string(), 3, 4, "images have 3 (or 4 with channels)");
  const auto& dimensions = header.dimensions;
  const std::uint32_t channels = dimensions.size() == 4 ? dimensions[3] : 1;
  if (channels != 1 && channels != 3) {
    refuse(images.string(), 16, fmt::format("{} channels, not 1 or 3", channels));
  }
  result.shape = ImageShape{.height = static_cast<int>(dimensions[1]),
                            .width = static_cast<int>(dimensions[2]),
                            .channels = static_cast<int>(channels)};
  cut_header(result.pixels, header);
  (target == Target::mask ? read_masks : read_labels)(targets, images, dimensions[0], result);
  return result;
}

IdxFolder find_idx_folder(const std::filesystem::path& folder, Target target) {
  const auto one = [&](const char* stem, const char* kind, const char* targets) {
    return find_one(folder, stem, kind, targets);
  };
  if (target == Target::mask) {
    const bool has_labels = !look_for(folder, "train-labels", "idx1-ubyte").empty();
    if (has_labels && look_for(folder, "train-masks", "idx3-ubyte").empty()) {
      throw DataError(fmt::format(
          "{} holds labels, but this model learns masks: add train-masks-idx3-ubyte and "
          "t10k-masks-idx3-ubyte, or use another --model",
          folder.string()));
    }
    return IdxFolder{.train_images = one("train-images", "idx3-ubyte", "masks"),
                     .train_targets = one("train-masks", "idx3-ubyte", "masks"),
                     .test_images = one("t10k-images", "idx3-ubyte", "masks"),
                     .test_targets = one("t10k-masks", "idx3-ubyte", "masks")};
  }
  return IdxFolder{.train_images = one("train-images", "idx3-ubyte", "labels"),
                   .train_targets = one("train-labels", "idx1-ubyte", "labels"),
                   .test_images = one("t10k-images", "idx3-ubyte", "labels"),
                   .test_targets = one("t10k-labels", "idx1-ubyte", "labels")};
}

TrainAndTest load_idx(const std::filesystem::path& folder, Target target, std::optional<int> head,
                      const ImageFit& fit) {
  const IdxFolder files = find_idx_folder(folder, target);
  ByteImages train = read_idx_pair(files.train_images, files.train_targets, target);
  ByteImages test = read_idx_pair(files.test_images, files.test_targets, target);
  if (train.shape != test.shape) {
    throw DataError(fmt::format("{} holds images of {}, but {} of {}", files.train_images.string(),
                                to_string(train.shape), files.test_images.string(),
                                to_string(test.shape)));
  }
  if (target == Target::label) {
    train.classes = test.classes = agree_on_classes(labels_of(train, files.train_targets),
                                                    labels_of(test, files.test_targets), head);
  }
  TrainAndTest sets = make_fitted_sets(folder, std::move(train), std::move(test), fit);
  if (target == Target::mask) {
    const char* const remedy = "look at the files of masks";
    check_masks(SetPart::train, mask_pixels(*sets.train->images()), folder, kMaskThreshold, remedy);
    check_masks(SetPart::test, mask_pixels(*sets.test->images()), folder, kMaskThreshold, remedy);
  }
  return sets;
}

std::uint64_t known_idx_bytes(const std::filesystem::path& folder, Target target,
                              const ImageFit& fit) {
  const IdxFolder files = find_idx_folder(folder, target);
  std::uint64_t own = 0;
  for (const std::filesystem::path* const file :
       {&files.train_images, &files.train_targets, &files.test_images, &files.test_targets}) {
    std::error_code unreadable;  // reported by the reader
    const std::uintmax_t size = std::filesystem::file_size(*file, unreadable);
    if (!unreadable && file->extension() != ".gz") own += size;
  }
  if (!fit.shape) return own;
  const std::uint64_t of_target = target == Target::mask ? mask_size(*fit.shape) : kLabelBytes;
  const std::uint64_t images = claimed_count(files.train_images) + claimed_count(files.test_images);
  return fitted_bytes(own, images * (sample_size(*fit.shape) + of_target), fit);
}

}  // namespace ddprun::trainer
