#include "bench/data/sets.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <vector>

#include <jpeglib.h>  // needs <cstdio> before it

#include "trainer/data/cifar.hpp"

namespace ddprun::bench {
namespace {

namespace fs = std::filesystem;
using trainer::ImageSet;
using trainer::TextSet;

constexpr trainer::ImageShape kShape{trainer::kCifarSide, trainer::kCifarSide, 3};
using Pixels = std::vector<std::uint8_t>;

Pixels pixels_of(const ImageSet& set, std::size_t index) {
  Pixels pixels(trainer::sample_size(kShape));
  set.read_image(index, pixels, {});
  return pixels;
}

void write_jpeg(const fs::path& path, Pixels& pixels) {
  constexpr int kQuality = 90;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "wb"),
                                                             &std::fclose);
  if (!file) throw std::runtime_error("could not write " + path.string());
  jpeg_error_mgr errors{};
  jpeg_compress_struct info{};
  info.err = jpeg_std_error(&errors);  // ends the program, with a message
  jpeg_create_compress(&info);
  jpeg_stdio_dest(&info, file.get());
  info.image_width = info.image_height = trainer::kCifarSide;
  info.input_components = kShape.channels;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, kQuality, TRUE);
  jpeg_start_compress(&info, TRUE);
  constexpr std::size_t kRow = std::size_t{trainer::kCifarSide} * 3;
  for (std::size_t row = 0; row < trainer::kCifarSide; ++row) {
    JSAMPROW line = pixels.data() + row * kRow;
    jpeg_write_scanlines(&info, &line, 1);
  }
  jpeg_finish_compress(&info);
  jpeg_destroy_compress(&info);
}

void write_jpegs_of(const ImageSet& set, const fs::path& folder) {
  for (int label = 0; label < set.classes(); ++label)
    fs::create_directories(folder / std::to_string(label));
  for (std::size_t i = 0; i < set.size(); ++i) {
    Pixels pixels = pixels_of(set, i);
    write_jpeg(folder / std::to_string(set.label(i)) / fmt::format("{:05}.jpg", i), pixels);
  }
}

/// Samples `first` to `last` - 1.
void write_records(const ImageSet& set, std::size_t first, std::size_t last, const fs::path& path) {
  std::ofstream file(path, std::ios::binary);
  for (std::size_t i = first; i < last; ++i) {
    const Pixels pixels = pixels_of(set, i);
    file.put(static_cast<char>(set.label(i)));
    for (std::size_t channel = 0; channel < 3; ++channel)
      for (std::size_t k = channel; k < pixels.size(); k += 3)
        file.put(static_cast<char>(pixels[k]));
  }
  if (!file.flush()) throw std::runtime_error("could not write " + path.string());
}

void write_lines(const TextSet& set, const fs::path& path) {
  std::ofstream file(path);
  for (std::size_t i = 0; i < set.size(); ++i) {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(set.length(i)));
    const std::int32_t label = set.read_tokens(i, tokens);
    // Without <s> and </s>, which a reader adds.
    const std::vector<std::int32_t> words(tokens.begin() + 1, tokens.end() - 1);
    file << trainer::sentence_text(words) << '\t' << label << '\n';
  }
  if (!file.flush()) throw std::runtime_error("could not write " + path.string());
}

}  // namespace

void write_jpegs(const std::string& folder) {
  const trainer::TrainAndTest sets = trainer::generate_shapes(kShape, trainer::Target::label);
  write_jpegs_of(*sets.train->images(), fs::path(folder) / "train");
  write_jpegs_of(*sets.test->images(), fs::path(folder) / "val");
}

void write_cifar(const std::string& folder) {
  constexpr std::size_t kFiles = 5;
  fs::create_directories(folder);
  const trainer::TrainAndTest sets = trainer::generate_shapes(kShape, trainer::Target::label);
  const std::size_t count = sets.train->size();
  for (std::size_t i = 0; i < kFiles; ++i)
    write_records(*sets.train->images(), count * i / kFiles, count * (i + 1) / kFiles,
                  fs::path(folder) / fmt::format("data_batch_{}.bin", i + 1));
  write_records(*sets.test->images(), 0, sets.test->size(), fs::path(folder) / "test_batch.bin");
}

void write_tsv(const std::string& folder) {
  fs::create_directories(folder);
  const trainer::TrainAndTest sets = trainer::generate_sentences(kSentences);
  write_lines(*sets.train->texts(), fs::path(folder) / "train.tsv");
  write_lines(*sets.test->texts(), fs::path(folder) / "dev.tsv");
}

}  // namespace ddprun::bench
