foreach(noun priority_tree url_path)
  rlb_unit_test(h2o/${noun} LINK rlb::h2o)
endforeach()
