// Why a run cannot go on from a checkpoint, or not as if undisturbed, in the words of the command
// line. Pure.
#pragma once

#include <string>
#include <vector>

#include "trainer/checkpoint/training_state.hpp"

namespace ddprun::trainer {

/// "it belongs to another run: --tokens words there, bytes here: give --tokens=words to go on with
/// it". Differences that follow from another one are left out, as that of the hashes from another
/// --tokens. Empty: it belongs to this run.
std::string why_another_run(std::vector<EntryDifference> differences);

/// " was written with other settings (--lr 0.1 there, 0.2 here): ...", behind the name of a
/// checkpoint. Empty: nothing differs that may.
std::string other_settings_text(std::vector<EntryDifference> differences);

}  // namespace ddprun::trainer
