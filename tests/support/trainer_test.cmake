# SPDX-License-Identifier: Apache-2.0
# Tests of the trainer as a process, in Python: test_NAME.py of the folder that calls this.
find_program(TRIREME_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH)  # the one that has apt's modules
find_program(TRIREME_PYTHON python3 REQUIRED)
find_program(TRIREME_MPIRUN NAMES mpirun mpiexec REQUIRED)

# What follows `seconds` and is none of these are further arguments of the script. LONG: for scripts/test --all only. SCRIPT: of another name. ONLY: unittest's names of what to run of it.
function(trireme_trainer_test label name seconds)
  cmake_parse_arguments(ARG "LONG" "SCRIPT" "ONLY" ${ARGN})
  if(NOT ARG_SCRIPT)
    set(ARG_SCRIPT ${name})
  endif()
  set(labels ${label})
  if(ARG_LONG)
    list(APPEND labels long)
  endif()
  add_test(NAME ${label}.${name} COMMAND "${TRIREME_PYTHON}" "${CMAKE_CURRENT_SOURCE_DIR}/test_${ARG_SCRIPT}.py"
    --trainer $<TARGET_FILE:trainer> --mpirun "${TRIREME_MPIRUN}" ${ARG_ONLY} ${ARG_UNPARSED_ARGUMENTS})
  set_tests_properties(${label}.${name} PROPERTIES LABELS "${labels}" TIMEOUT ${seconds} PROCESSORS 2
    ENVIRONMENT "PYTHONPATH=${CMAKE_SOURCE_DIR}/tests/support;PYTHONDONTWRITEBYTECODE=1")
endfunction()
