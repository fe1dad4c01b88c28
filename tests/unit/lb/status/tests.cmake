foreach(noun class_metrics shared_answers)
  rlb_unit_test(lb/status/${noun} LINK rlb::lb)
endforeach()
