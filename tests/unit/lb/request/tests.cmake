foreach(noun response exchange front headers)
  rlb_unit_test(lb/request/${noun} LINK rlb::lb)
endforeach()
# Scenarios, with scripted clients and workers.
foreach(noun connect forward retry)
  rlb_unit_test(lb/request/${noun} LINK test_rig)
endforeach()
