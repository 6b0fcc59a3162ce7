// The Python side of the importer.
#pragma once

#include <string_view>

namespace ddprun::agent {

/// sitecustomize.py, which lies beside this file.
extern const std::string_view kImporterText;

}  // namespace ddprun::agent
