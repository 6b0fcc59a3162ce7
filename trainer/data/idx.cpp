#include "trainer/data/idx.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "trainer/data/big_endian.hpp"
#include "trainer/data/read_file.hpp"
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

}  // namespace ddprun::trainer
