foreach(noun access_line access_log)
  rlb_unit_test(lb/access/${noun} LINK rlb::lb)
endforeach()
set_tests_properties(unit.lb.access.access_log PROPERTIES LABELS "unit;thread")
