// --eval takes from a checkpoint what describes its model, so that nobody has to type it again.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace ddprun::trainer {

/// Command lines with --eval and --resume-from=PATH: PATH becomes the file with the weights, and
/// options that its metadata give, such as --model, are added unless they are there already. Others
/// stay as they are. Throws DataError that names --resume-from where no weights can be read there.
std::vector<std::string> evaluation_arguments(std::vector<std::string> arguments);

/// `path`: a safetensors file, a checkpoint, or the directory of a run, of which the best
/// checkpoint counts, else the latest. Throws DataError.
std::filesystem::path weights_file_of(const std::filesystem::path& path);

/// The metadata of weights. `verifies`: in a checkpoint also its checksums, as training does; a
/// file that was exported has none. Throws DataError.
std::map<std::string, std::string> metadata_of_weights(const std::filesystem::path& file,
                                                       bool verifies);

/// The options, "--model=resnet18", that a run had which wrote a file with this metadata
/// (make_layout()), without those that `arguments` have. Pure.
std::vector<std::string> options_of_writer(const std::map<std::string, std::string>& metadata,
                                           const std::vector<std::string>& arguments);

/// Throws DataError where `arguments` have another model than that of the run that wrote `file`, or
/// another form of it (--stem, --size). Pure.
void check_given_model(const std::map<std::string, std::string>& metadata,
                       const std::vector<std::string>& arguments, const std::string& file);

/// In that metadata: names of classes with slashes between them, as folders have them. Bytes that
/// are no UTF-8 are written as in C.
inline constexpr const char* kClassNamesEntry = "class_names";
std::string joined_class_names(const std::vector<std::string>& names);

/// A classifier's outputs are the classes that it was trained on, in their order. Throws DataError
/// that names `file` where the data has others; nothing is known of data without names. Pure.
void check_classes_of_writer(const std::map<std::string, std::string>& metadata,
                             const std::vector<std::string>& names, const std::string& file);

}  // namespace ddprun::trainer
