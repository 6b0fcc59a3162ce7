// The options of rdzvd for encrypted connections of agents and observers.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "proto/encryption.hpp"
#include "texts/cli/command_line.hpp"

namespace ddprun::rdzv {

struct TlsTexts {
  bool wants_key = false;  ///< from the secret
  std::optional<std::string> cert;
  std::optional<std::string> key;
  std::optional<std::string> ca;
};

enum class TlsSide { serves, asks };

void add_tls_options(CommandLine& line, TlsTexts& texts);

/// Null: none is wanted. `warnings`: of the files; one is added. Throws UsageError.
std::shared_ptr<const proto::Encrypter> encrypter_for(const TlsTexts& texts, TlsSide side,
                                                      bool has_secret,
                                                      std::vector<std::string>& warnings);

}  // namespace ddprun::rdzv
