# A build of one house has, for each target of the other one, a target of this name that tells which preset has it.

# The targets that CMakeLists.txt files below these folders declare.
function(declared_targets result)
  set(names "")
  foreach(folder IN LISTS ARGN)
    file(GLOB_RECURSE lists ${PROJECT_SOURCE_DIR}/${folder}/CMakeLists.txt)
    foreach(list IN LISTS lists)
      file(READ ${list} text)
      string(REGEX MATCHALL "(ddprun_test|ddprun_program|ddprun_library|ddprun_texts|add_executable|add_library)\\([a-z0-9_]+" calls "${text}")
      foreach(call IN LISTS calls)
        string(REGEX REPLACE "^ddprun_test\\(" "test_" call ${call})
        string(REGEX REPLACE "^ddprun_library\\(" "ddprun_" call ${call})
        string(REGEX REPLACE "^ddprun_texts\\((.*)" "\\1_share" call ${call})
        string(REGEX REPLACE "^.*\\(" "" call ${call})
        list(APPEND names ${call})
      endforeach()
    endforeach()
  endforeach()
  list(REMOVE_DUPLICATES names)
  set(${result} ${names} PARENT_SCOPE)
endfunction()

# other_house(BELONGS PRESETS FOLDER...): targets that end with a message.
function(other_house belongs presets)
  declared_targets(names ${ARGN})
  foreach(name IN LISTS names)
    if(NOT TARGET ${name})
      add_custom_target(${name}
        COMMAND ${CMAKE_COMMAND} -E echo "${name} ${belongs}: build it with the preset ${presets}"
        COMMAND ${CMAKE_COMMAND} -E false
        VERBATIM)
    endif()
  endforeach()
endfunction()

if(NOT DDPRUN_LAUNCHER OR NOT DDPRUN_TRAIN)
  other_house("needs both houses" "dev" tests/both)
endif()
if(NOT DDPRUN_TRAIN)
  other_house("belongs to the trainer's house" "trainer or dev" trainer tests/unit/trainer tests/unit/bench tests/integration/trainer
    tests/emulated_gpu tests/fake_cuda tests/gpu)
endif()
if(NOT DDPRUN_LAUNCHER)
  other_house("belongs to the launcher's house" "launcher or dev" machine rendezvous warden agent launcher tests/unit tests/integration tests/sim)
endif()
