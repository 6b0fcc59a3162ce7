#include "trainer/checkpoint/other_weights.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>

#include "base/shell_word.hpp"

namespace ddprun::trainer {
namespace {

using namespace std::string_view_literals;

constexpr std::size_t kStartBytes = 8;

/// A pickle begins with its protocol; the length of a header that begins with these bytes is short,
/// and the next bytes are 0.
bool is_pickle(std::string_view start) {
  return start.starts_with('\x80') && start[1] >= 2 && start[1] <= 5 && start[2] != 0;
}

bool is_text(std::string_view start) {
  return std::all_of(start.begin(), start.end(), [](char letter) {
    const auto byte = static_cast<unsigned char>(letter);
    return std::isprint(byte) != 0 || std::isspace(byte) != 0;
  });
}

/// save_file() takes tensors alone, contiguous ones that share no memory.
std::string converted(const std::string& file) {
  auto output = std::filesystem::path(file).replace_extension(".safetensors");
  if (output == file) output.replace_extension(".converted.safetensors");
  return fmt::format(
      "convert it: python3 -c 'import sys, torch; from safetensors.torch import save_file; "
      "d = torch.load(sys.argv[1], map_location=\"cpu\"); save_file({{k: v.clone().contiguous() "
      "for k, v in d.items() if torch.is_tensor(v)}}, sys.argv[2])' {} {}",
      shell_word(file), shell_word(output.string()));
}

}  // namespace

std::string other_weights_text(std::span<const std::byte> start, const std::string& file) {
  if (start.size() < kStartBytes) return "";
  const std::string_view text(reinterpret_cast<const char*>(start.data()), kStartBytes);
  if (text == "version "sv) {
    return "a Git LFS pointer, which only names the file: run git lfs pull, or download the file "
           "itself";
  }
  if (text.starts_with("PK\x03\x04"sv))
    return "a zip archive, as torch.save writes it: " + converted(file);
  if (is_pickle(text))
    return "a pickle, as older versions of torch.save write it: " + converted(file);
  if (text.starts_with("\x89HDF"sv))
    return "HDF5, the format of Keras: give weights of PyTorch as safetensors";
  if (text.starts_with("\x1f\x8b"sv)) return "packed with gzip: unpack it";
  if (!is_text(text)) return "";
  const std::size_t first = std::min(text.find_first_not_of(" \t\r\n"), kStartBytes - 1);
  return text[first] == '<'
             ? "a page of HTML, perhaps of a download that failed: download the file again"
             : "a text: give the file with the tensors";
}

}  // namespace ddprun::trainer
