rlb_unit_test(lb/access/access_log LINK rlb::lb)
set_tests_properties(unit.lb.access.access_log PROPERTIES LABELS "unit;thread")
