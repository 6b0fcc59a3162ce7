#include "trainer/data/train_and_test.hpp"

#include "base/assert.hpp"
#include "trainer/data/image_shape.hpp"

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

std::string set_name(const std::filesystem::path& folder, ImageShape shape) {
  return folder_name(folder) + " " + to_string(shape);
}

std::string folder_name(const std::filesystem::path& folder) {
  const std::filesystem::path path = std::filesystem::absolute(folder).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

}  // namespace ddprun::trainer
