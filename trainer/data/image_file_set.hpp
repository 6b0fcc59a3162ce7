// A set of image files that is too large for memory: a sample is decoded whenever it is read.
#pragma once

#include <string>
#include <vector>

#include "trainer/data/image_scan.hpp"

namespace ddprun::trainer {

class ImageFileSet final : public DataSet {
 public:
  /// `scanned` without samples, of images or of images with masks. Labels are below `classes`.
  ImageFileSet(std::string name, ScannedImages scanned, int classes, ImageSettings settings,
               Normalization normalization);

  [[nodiscard]] const std::string& name() const override { return name_; }
  [[nodiscard]] ImageShape shape() const override { return settings_.shape; }
  [[nodiscard]] Target target() const override { return target_; }
  [[nodiscard]] int classes() const override { return classes_; }
  [[nodiscard]] std::size_t size() const override { return files_.size(); }
  [[nodiscard]] const Normalization& normalization() const override { return normalization_; }
  [[nodiscard]] std::uint64_t content_hash() const override { return content_hash_; }
  /// Names, hashes and labels.
  [[nodiscard]] std::uint64_t bytes() const override;
  [[nodiscard]] bool is_in_memory() const override { return false; }
  /// Of the files as they were when the set was made.
  [[nodiscard]] std::uint64_t reading_bytes() const override { return reading_bytes_; }
  [[nodiscard]] std::int32_t label(std::size_t index) const override;
  /// Throws DataError that names the file where it is gone, or no longer what it was when the set
  /// was made.
  void read_image(std::size_t index, std::span<std::uint8_t> pixels,
                  std::span<std::uint8_t> mask) const override;

  [[nodiscard]] std::uint64_t mask_pixels() const override { return mask_pixels_; }

  /// Of a list that is not read yet.
  static std::uint64_t bytes_of(const std::vector<ImageFile>& files);

 private:
  std::string name_;
  std::vector<ImageFile> files_;
  std::vector<std::uint64_t> hashes_;
  Target target_;
  int classes_;
  ImageSettings settings_;
  std::uint64_t content_hash_;
  std::uint64_t reading_bytes_;
  std::uint64_t mask_pixels_;  // that belong to a mask
  Normalization normalization_;
};

}  // namespace ddprun::trainer
