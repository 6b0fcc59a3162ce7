#include "proto/c10d.hpp"
