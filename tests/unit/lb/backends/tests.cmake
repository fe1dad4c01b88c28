foreach(noun active_check drained_names member membership self_measure)
  rlb_unit_test(lb/backends/${noun} LINK rlb::lb)
endforeach()
set_tests_properties(unit.lb.backends.self_measure PROPERTIES LABELS "unit;thread")
