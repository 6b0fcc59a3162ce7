#include "trainer/data/image_lists.hpp"

#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>

#include "trainer/data/image_file_set.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {
namespace {

std::uint64_t decoded_bytes(const ImageLists& lists, const ImageSettings& settings) {
  const bool has_masks = !lists.train.empty() && !lists.train.front().mask.empty();
  return (lists.train.size() + lists.test.size()) *
         (sample_size(settings.shape) + (has_masks ? mask_size(settings.shape) : kLabelBytes));
}

/// Empty: none.
std::string skipped_text(const SkippedFiles& skipped, std::size_t of) {
  if (skipped.count == 0) return "";
  std::string text = fmt::format("--skip-bad: {} of {} images cannot be used and {} left out",
                                 skipped.count, of, skipped.count == 1 ? "is" : "are");
  for (std::size_t i = 0; i < skipped.reasons.size(); ++i)
    text += fmt::format("{} {}", i == 0 ? ":" : ";", skipped.reasons[i]);
  if (const std::size_t more = skipped.count - skipped.reasons.size(); more > 0)
    text += fmt::format("; and {} more", more);
  return text;
}

}  // namespace

TrainAndTest read_image_lists(const std::filesystem::path& folder, ImageLists lists,
                              const ImageSettings& settings,
                              const std::function<void(SetPart, const ScannedImages&)>& check) {
  const bool keeps = decoded_bytes(lists, settings) <= settings.memory;
  const std::size_t files = lists.train.size() + lists.test.size();
  ScannedImages train = scan_image_files(std::move(lists.train), settings, keeps);
  check(SetPart::train, train);
  ScannedImages test = scan_image_files(std::move(lists.test), settings, keeps);
  if (test.files.empty())
    throw DataError(fmt::format("{}: no held-out image can be used: {}", folder.string(),
                                test.skipped.reasons.front()));
  check(SetPart::test, test);
  SkippedFiles skipped = train.skipped;
  skipped += test.skipped;
  train.images.classes = test.images.classes = lists.classes;
  TrainAndTest sets;
  if (keeps) {
    sets = make_image_sets(folder, std::move(train.images), std::move(test.images));
  } else {
    const Normalization normalization = train.sums.normalization();
    const auto make = [&](ScannedImages& scanned) {
      return std::make_unique<ImageFileSet>(set_name(folder, settings.shape), std::move(scanned),
                                            lists.classes, settings, normalization);
    };
    sets.train = make(train);
    sets.test = make(test);
  }
  sets.warning = skipped_text(skipped, files);
  return sets;
}

std::uint64_t known_bytes(const ImageLists& lists, const ImageSettings& settings) {
  const std::uint64_t decoded = decoded_bytes(lists, settings);
  if (decoded <= settings.memory) return decoded;
  return ImageFileSet::bytes_of(lists.train) + ImageFileSet::bytes_of(lists.test);
}

}  // namespace ddprun::trainer
