#include "trainer/data/train_and_test.hpp"

#include <fmt/format.h>

#include "base/assert.hpp"
#include "trainer/data/image_shape.hpp"
#include "trainer/error.hpp"

namespace ddprun::trainer {

TrainAndTest make_image_sets(const std::filesystem::path& folder, ByteImages train,
                             ByteImages test) {
  DDPRUN_ASSERT(train.shape == test.shape && train.classes == test.classes,
                "two sets for one network");
  const Normalization normalization = measure_normalization(train);
  const std::string name = set_name(folder, train.shape);
  TrainAndTest sets;
  sets.train = std::make_unique<ByteImageSet>(name, std::move(train), normalization);
  sets.test = std::make_unique<ByteImageSet>(name, std::move(test), normalization);
  return sets;
}

void check_masks(const TrainAndTest& sets, const std::filesystem::path& folder, int threshold,
                 const std::string& remedy) {
  struct Part {
    const DataSet& set;
    const char* name;
    const char* then;
  };
  for (const Part& part : {Part{*sets.train, "training", "there is nothing to learn"},
                           Part{*sets.test, "held-out", "IoU and F1 measure nothing"}}) {
    const std::uint64_t inside = part.set.mask_pixels();
    const std::uint64_t all = part.set.size() * mask_size(part.set.shape());
    if (inside != 0 && inside != all) continue;
    throw DataError(fmt::format("{}: {} pixel of the {} masks has a value of {} or more, so {}: {}",
                                folder.string(), inside == 0 ? "no" : "every", part.name, threshold,
                                part.then, remedy));
  }
}

std::string set_name(const std::filesystem::path& folder, ImageShape shape) {
  return folder_name(folder) + " " + to_string(shape);
}

std::string folder_name(const std::filesystem::path& folder) {
  const std::filesystem::path path = std::filesystem::absolute(folder).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

}  // namespace ddprun::trainer
