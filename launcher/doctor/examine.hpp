// ddprun doctor: what was found on this machine, and what each missing thing costs. Pure.
#pragma once

#include <string>
#include <vector>

#include "launcher/doctor/machine_facts.hpp"

namespace ddprun::launcher {

/// One line: what was looked at, what was found, and what it costs; no cost: all is well.
struct Finding {
  std::string name;
  std::string found;
  std::string cost{};
};

struct DoctorSection {
  std::string title;
  std::vector<Finding> findings;
};

std::vector<DoctorSection> examine(const MachineFacts& facts);

/// Each section with its findings, and each cost on a line of its own below what was found.
std::string doctor_text(const std::vector<DoctorSection>& sections);

}  // namespace ddprun::launcher
