foreach(noun group_directory live_settings node_data provider_file snapshot tree_directory tree_follow tree_op tree_register)
  rlb_unit_test(tree/${noun} LINK rlb::tree)
endforeach()
