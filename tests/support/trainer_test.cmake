# SPDX-License-Identifier: Apache-2.0
# Tests of the trainer as a process, in Python: test_NAME.py of the folder that calls this.
find_program(TRIREME_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH)  # the one that has apt's modules
find_program(TRIREME_PYTHON python3 REQUIRED)
find_program(TRIREME_MPIRUN NAMES mpirun mpiexec REQUIRED)

# What follows `seconds` are further arguments of the script.
function(trireme_trainer_test label name seconds)
  add_test(NAME ${label}.${name} COMMAND "${TRIREME_PYTHON}" "${CMAKE_CURRENT_SOURCE_DIR}/test_${name}.py"
    --trainer $<TARGET_FILE:trainer> --mpirun "${TRIREME_MPIRUN}" ${ARGN})
  set_tests_properties(${label}.${name} PROPERTIES LABELS ${label} TIMEOUT ${seconds} PROCESSORS 2
    ENVIRONMENT "PYTHONPATH=${CMAKE_SOURCE_DIR}/tests/support;PYTHONDONTWRITEBYTECODE=1")
endfunction()
