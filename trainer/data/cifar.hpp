// CIFAR-10's binary files.
//
//   file := record*     record := label red{1024} green{1024} blue{1024}
//
// All are bytes; a label is 0 to 9; each plane has 32 rows of 32.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "trainer/data/resize.hpp"

namespace ddprun::trainer {

inline constexpr int kCifarSide = 32;
inline constexpr int kCifarClasses = 10;
inline constexpr std::size_t kCifarPlane = std::size_t{kCifarSide} * kCifarSide;
inline constexpr std::size_t kCifarRecord = 1 + 3 * kCifarPlane;

/// Appends the records of `bytes` to `images`, each pixel's channels side by side. Throws DataError
/// that names `file` and the record (from 0): no record, cut short, a label above 9. Pure.
void append_cifar(std::span<const std::uint8_t> bytes, const std::string& file, ByteImages& images);

/// data_batch_1.bin to data_batch_5.bin for training, test_batch.bin held out, all in `folder`.
/// Throws DataError that names the missing or damaged file.
TrainAndTest load_cifar(const std::filesystem::path& folder, const ImageFit& fit);

/// Bytes that they are going to take.
std::uint64_t known_cifar_bytes(const std::filesystem::path& folder, const ImageFit& fit);

}  // namespace ddprun::trainer
